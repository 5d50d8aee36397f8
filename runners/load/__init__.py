"""The load on a server: what is sent, when, and how it is recorded, over HTTP or on a virtual clock."""
