"""The Hopular model of the paper, part by part, and its scikit-learn estimators."""
