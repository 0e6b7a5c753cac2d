"""Who a client is: SASL on the broker's listeners, before any other request."""
