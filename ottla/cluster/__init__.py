"""A whole cluster on this machine: brokers as child processes, their ports and what they print."""
