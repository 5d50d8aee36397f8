"""The serving runtime. What its OpenMP threads do between parallel regions is settled here, before torch loads.

They sleep instead of spinning: beside other busy processes on the same cores (a load client, the control plane) a
spinning thread holds the core that its partner needs, and a step of 40 ms was seen to take a second.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
