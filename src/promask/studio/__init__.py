"""The studio: a local web page that learns masks, and the small server behind it.

`server` starts it; `app` has the HTTP calls; `jobs` and `processes` run what they ask for, each in a process of
its own; `learning` and `settings` are what those processes do.
"""
