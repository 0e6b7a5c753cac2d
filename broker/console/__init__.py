"""The HTTP server: health, metrics and the page that shows the cluster."""
