"""One file for each API: its handler and the functions that only it uses."""
