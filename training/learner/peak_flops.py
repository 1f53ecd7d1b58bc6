"""Peak rates of GPUs, against which the FLOPs of an update are measured.

The numbers are those of the vendors' data sheets, without sparsity: products of matrices in bfloat16 that are summed in
float32, and products in float32 without TF32, which torch does not use unless it is told to.
"""

from typing import Final

import torch

TERA: Final = 1e12

PEAKS: Final[dict[str, tuple[float, float]]] = {
    "B300": (2250.0, 75.0),
    "GB200": (2500.0, 80.0),
    "B200": (2250.0, 75.0),
    "GH200": (989.4, 66.9),
    "H200 NVL": (835.5, 60.0),
    "H200": (989.4, 66.9),
    "H100 NVL": (835.5, 60.0),
    "H100 PCIe": (756.0, 51.2),
    "H100": (989.4, 66.9),
    "H800": (989.4, 66.9),
    "A100": (312.0, 19.5),
    "A800": (312.0, 19.5),
    "A40": (149.7, 37.4),
    "A10G": (70.0, 35.0),
    "A10": (125.0, 31.2),
    "L40S": (362.0, 91.6),
    "L40": (181.0, 90.5),
    "L4": (121.0, 30.3),
    "RTX 6000 Ada": (364.2, 91.1),
    "RTX A6000": (154.8, 38.7),
    "RTX 5090": (209.5, 104.8),
    "RTX 4090": (165.2, 82.6),
    "RTX 3090": (71.0, 35.6),
    "MI325X": (1307.4, 163.4),
    "MI300X": (1307.4, 163.4),
}
"""Words of a GPU's name -> teraFLOP/s in bfloat16 and in float32. Longer names stand before shorter ones in them."""


def peak_of(name: str, dtype: str) -> float:
    """Return the peak of a GPU in FLOP/s by the name that its driver gives; 0 if it is not in the table.

    >>> peak_of("NVIDIA H100 80GB HBM3", "bfloat16")
    989400000000000.0

    Args:
        name: such as "NVIDIA A100-SXM4-80GB".
        dtype: of the computation: bfloat16 or float32.
    """
    words = set(name.replace("-", " ").split())
    if words & {"MIG", "Laptop"}:  # a part of the GPU, or a smaller one of that name
        return 0.0
    rates = next((rates for key, rates in PEAKS.items() if set(key.split()) <= words), (0.0, 0.0))
    return TERA * rates[dtype == "float32"]


def peak_of_device(device: str, dtype: str, stated: float = 0.0) -> float:
    """Return the peak of a device in FLOP/s; 0 if it is not known, as that of a CPU.

    Args:
        device: as torch names it.
        dtype: of the computation: bfloat16 or float32.
        stated: teraFLOP/s that the user states; 0: by the name of the GPU.
    """
    if stated:
        return TERA * stated
    return peak_of(torch.cuda.get_device_name(device), dtype) if device.startswith("cuda") else 0.0
