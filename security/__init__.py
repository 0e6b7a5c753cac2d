"""Who a peer is: TLS, SASL and the users that they prove; for brokers and clients."""
