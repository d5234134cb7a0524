"""Studies on Ray: its servers on this machine, client actors, drivers."""
