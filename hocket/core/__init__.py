"""What every room stands on: keys, components, packing, segments, signals, schedules, errors, discovery."""
