"""What each thread, lane and block has to do."""
