"""The HTTP side: health, metrics and the page that shows the cluster."""
