"""What a broker of Ottla shows of its inside: the answers, and the interfaces that the broker implements."""
