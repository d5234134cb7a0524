"""What tests of plug-ins need, ours and users'."""
