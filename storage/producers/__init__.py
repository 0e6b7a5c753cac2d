"""What a log knows of its producers: sequences, open transactions, snapshots, aborted transactions."""
