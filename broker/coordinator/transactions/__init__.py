"""The transaction coordinator: transactional ids, their log, and the markers of decided transactions."""
