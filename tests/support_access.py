"""Callers as the Identity service tells of them, without one."""

from __future__ import annotations

from typing import Any

from deploysteps.access.enforcer import Enforcer
from deploysteps.api.access import Access
from deploysteps.api.access_keystone import Keystone

ROLES = {"none": "", "reader": "reader", "member": "member,reader"}
ROLES["admin"] = "admin,manager,member,reader"
OWNER, LESSEE, OTHER = "project-of-owner", "project-of-lessee", "project-of-others"
SCOPES = {"system": None, "owner": OWNER, "lessee": LESSEE, "other": OTHER}


def protocol(application: Any) -> Any:
    """Stand for OpenStack's middleware: the token is ``scope:role``; headers of it are true."""

    def validate(env: dict[str, Any], start_response: Any) -> Any:
        for name in [name for name in env if name.startswith(("HTTP_X_", "HTTP_OPENSTACK"))]:
            if name not in ("HTTP_X_AUTH_TOKEN", "HTTP_X_OPENSTACK_IRONIC_API_VERSION"):
                del env[name]
        scope, _, role = env.get("HTTP_X_AUTH_TOKEN", "").partition(":")
        if scope not in SCOPES or role not in ROLES:
            env["HTTP_X_IDENTITY_STATUS"] = "Invalid"
        else:
            env["HTTP_X_IDENTITY_STATUS"] = "Confirmed"
            env["HTTP_X_USER_ID"] = env["HTTP_X_USER_NAME"] = f"{role}-of-{scope}"
            env["HTTP_X_ROLES"] = ROLES[role]
            if SCOPES[scope] is None:
                env["HTTP_OPENSTACK_SYSTEM_SCOPE"] = "all"
                env["keystone.token_info"] = {"token": {"system": {"all": True}}}
            else:
                env["HTTP_X_PROJECT_ID"] = SCOPES[scope]
        return application(env, start_response)

    return validate


def keystone(conf: Any) -> Access:
    """Return what asks callers for such tokens."""
    service = Keystone(conf, protocol)
    return Access(
        Enforcer(conf), lambda req, context: service.context(req.env, str(context.request_id))
    )


def token(scope: str, role: str) -> dict[str, str]:
    """Return the header of a caller."""
    return {"X-Auth-Token": f"{scope}:{role}"}
