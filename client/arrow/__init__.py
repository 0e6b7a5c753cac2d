"""Records as columns: Arrow tables, and the numpy and numba that decode them."""
