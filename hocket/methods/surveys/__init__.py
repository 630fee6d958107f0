"""Surveys and reports: taxonomies that the library maps, and what of their statements can be shown."""
