"""The studio: a local web page that learns masks, and the small server behind it.

`studio` starts it; `app` has the page and the HTTP calls; `request` is what the page may ask for; `uploads` and
`jobs` keep files and jobs; `processes` runs each job in a process of its own, which does what `tasks` says.
"""
