"""Three drivers in the style of those written for Ironic, ported by changing their imports.

They show that what such drivers do still works: an IPMI power driver
(:mod:`ipmi`), RAID and BIOS settings as jobs of a controller that a periodic method
asks about (:mod:`bmc`), and a deploy interface that decides itself what a
heartbeat of the machine's agent means (:mod:`agent`).

They are written as they would have been; for new drivers see ``examples/rackserver``.
"""
