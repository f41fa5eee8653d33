"""The oracle: our client and the official SDK, given the same case, have to come to the same."""
