"""The studio: a local web page that learns masks, and the small server behind it.

`app` has the page and the HTTP calls, and starts the server; `request` is what the page may ask for and upload;
`jobs` keeps the jobs; `processes` runs each of them in a process of its own.
"""
