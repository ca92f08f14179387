"""The kernel, the container, the firmware and the mounts, from their files."""
