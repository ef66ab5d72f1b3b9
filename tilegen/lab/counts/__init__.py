"""What is counted of a program's text: its accesses, its work, what it moves."""
