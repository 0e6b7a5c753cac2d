"""Records as columns: Arrow tables, decoded with numpy and numba."""
