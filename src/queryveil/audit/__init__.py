"""What leaks from a release, and what it is still good for.

Attacks (`attacks/`) and measures (`measures/`) are one class in one file each; `context.py` is what they work on,
`finding.py` what they find, `verdict.py` what that amounts to. The package itself can be called: `qv.audit(log,
release)` is `queryveil.audit.auditing.audit`.
"""

import sys
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    def __call__(self, *given: Any, **named: Any) -> Any:
        from queryveil.audit.auditing import audit

        return audit(*given, **named)


sys.modules[__name__].__class__ = _CallablePackage
