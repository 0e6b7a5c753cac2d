"""Records as the console shows them: pages in both directions, search, live tail."""
