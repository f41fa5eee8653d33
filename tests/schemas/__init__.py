"""Our schema documents, held against the official bundle; and one engine against the other."""
