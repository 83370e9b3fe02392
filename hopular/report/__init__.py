"""Report: what a benchmark found, as a leaderboard in five formats, as figures, and as one HTML page."""
