"""`holdfast top`: the state of the whole in a terminal, with actions.

`watcher` asks the store and makes a `picture` of the answers; `tables` and `lines` turn that into text, which
`plain` prints once and `display` shows live. Only `display`, `job_page`, `dialogs` and `grid` know Textual,
an extra; what they show is made by the others. Not here: rates and lateness, which are `model.pulse`.
"""
