"""Where accesses lie: inside of their buffers, at computed indices, between ends that data give."""
