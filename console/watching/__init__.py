"""The cluster over time: snapshots, what differs between two of them, and rates of the last hour. All in memory."""
