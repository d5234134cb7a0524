"""One run in its folder, and the serial and the Ray way to run a whole study."""
