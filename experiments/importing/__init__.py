"""Results that were not made here: uploaded files of other tools and of other labs become experiments of origin
"import", whose runs have no node and are never taken for measured ones."""
