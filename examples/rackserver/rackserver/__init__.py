"""An example driver: a rack server with a management controller.

Read ``README.rst`` first; it says which module shows what.
"""
