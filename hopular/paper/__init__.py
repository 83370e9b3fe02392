"""The paper's figures as data, and our results beside them."""
