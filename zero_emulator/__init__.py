"""Plain data parallelism and ZeRO-1, 2 and 3 on real ranks, every byte accounted for."""
