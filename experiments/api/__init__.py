"""REST for people and nodes: routers, their schemas and their authentication. labsite.api mounts them."""
