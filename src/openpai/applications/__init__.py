"""The entrance of browsers to servers in tasks (Jupyter, TensorBoard), each on an origin of its own."""
