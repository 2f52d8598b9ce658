"""Deploying through the agent that runs on the machine (ironic-python-agent).

``client`` speaks the agent's REST API over ``transport``; ``stepping`` hands
steps to it and finds out what became of them; ``deploy`` has the deploy
interfaces. Nothing here is imported by ``deploysteps.drivers.base``.
"""
