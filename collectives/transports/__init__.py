"""How bytes get from rank to rank: one file each, one interface."""
