"""The agent of a node: joins the lab, keeps a lease, runs what it is given, sends what that says."""
