"""Records as `ottla consume` prints them and `ottla produce` reads them."""
