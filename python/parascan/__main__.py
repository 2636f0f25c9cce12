"""Prints what the package finds on this machine: the driver, the devices, the kernels, the compiler."""

import os

from . import __version__, _native


def main():
    print(f"parascan {__version__}")
    try:
        version, devices = _native.found()
    except RuntimeError as error:
        print(f"device    none, so host arrays alone: {error}")
    else:
        print(f"driver    CUDA {version // 1000}.{version % 1000 // 10}")
        for number, (name, (major, minor), size) in enumerate(devices):
            print(f"device {number}  {name}, compute capability {major}.{minor}, {size / 2**30:.1f} GiB")
    print(f"kernels   {_native.IMAGES} units of the catalog are embedded" if _native.IMAGES else
          "kernels   none are embedded: NVRTC compiles each at its first use")
    print(f"NVRTC     {os.environ.get('PARASCAN_NVRTC', 'none in the installed packages; the system is searched')}")
    print(f"CPU       {_native.threads()} threads")


if __name__ == "__main__":
    main()
