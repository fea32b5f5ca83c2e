"""What is promised: cluster configurations read, checked and planned."""
