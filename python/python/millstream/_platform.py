"""Refuses Pythons that the native part was not made for."""

import sysconfig

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "millstream does not support free-threaded Python: its arrays rely on the GIL. Use a Python with the GIL; "
        "the loader's own threads never hold it while they work."
    )
