"""Changes of images, as blocks."""
import random as _random

from .... import image, ndarray as nd
from ....util import default_array
from ...block import Block
from ...hybrid_block import HybridBlock
from ...nn import HybridSequential, Sequential

__all__ = ["Compose", "HybridCompose", "Cast", "ToTensor", "Normalize", "Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "CropResize",
           "RandomFlipLeftRight", "RandomFlipTopBottom", "RandomBrightness", "RandomContrast", "RandomSaturation", "RandomHue", "RandomLighting",
           "RandomGray", "RandomColorJitter", "RandomApply", "HybridRandomApply", "Rotate", "RandomRotation"]


class Compose(Sequential):
    """One after the other."""

    def __init__(self, transforms):
        super().__init__()
        self.add(*transforms)


class HybridCompose(HybridSequential):
    """Hybrid ones after each other."""

    def __init__(self, transforms):
        super().__init__()
        self.add(*transforms)


class Cast(HybridBlock):
    """Another dtype."""

    def __init__(self, dtype="float32"):
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F, x):
        return F.cast(x, dtype=self._dtype)


class ToTensor(HybridBlock):
    """(H, W, C) of 0...255 to (C, H, W) of 0...1."""

    def hybrid_forward(self, F, x):
        return F.image.to_tensor(x)


class Normalize(HybridBlock):
    """(x - mean) / std per channel."""

    def __init__(self, mean=0.0, std=1.0):
        super().__init__()
        self._mean, self._std = ((v,) if isinstance(v, (int, float)) else tuple(v) for v in (mean, std))

    def hybrid_forward(self, F, x):
        return F.image.normalize(x, mean=self._mean, std=self._std)


class Resize(HybridBlock):
    """Another size, (width, height) or one edge."""

    def __init__(self, size, keep_ratio=False, interpolation=1):
        super().__init__()
        self._size, self._keep, self._interpolation = size, keep_ratio, interpolation

    def hybrid_forward(self, F, x):
        return F.image.resize(x, size=self._size, keep_ratio=self._keep, interp=self._interpolation)


class CropResize(HybridBlock):
    """A fixed part, in another size on demand."""

    def __init__(self, x, y, width, height, size=None, interpolation=None):
        super().__init__()
        self._box, self._size = {"x": x, "y": y, "width": width, "height": height}, size

    def hybrid_forward(self, F, x):
        out = F.image.crop(x, **self._box)
        return out if self._size is None else F.image.resize(out, size=self._size)


def _pair(size):
    return (size, size) if isinstance(size, int) else tuple(size)


class CenterCrop(Block):
    """The middle."""

    def __init__(self, size, interpolation=1):
        super().__init__()
        self._size, self._interpolation = _pair(size), interpolation

    def forward(self, x):
        return image.center_crop(x, self._size, self._interpolation)[0]


class RandomCrop(Block):
    """A random part, of an image with a border on demand."""

    def __init__(self, size, pad=None, pad_value=0, interpolation=1):
        super().__init__()
        self._size, self._pad, self._value, self._interpolation = _pair(size), pad, pad_value, interpolation

    def forward(self, x):
        if self._pad:
            import numpy as np
            edge = (self._pad, self._pad)
            x = default_array(np.pad(x.asnumpy(), (edge, edge, (0, 0)), constant_values=self._value), dtype=x.dtype)
        return image.random_crop(x, self._size, self._interpolation)[0]


class RandomResizedCrop(Block):
    """A random part of random area and shape."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3.0 / 4.0, 4.0 / 3.0), interpolation=1):
        super().__init__()
        self._args = _pair(size), scale, ratio, interpolation

    def forward(self, x):
        return image.random_size_crop(x, *self._args)[0]


class RandomFlipLeftRight(HybridBlock):
    """Mirrors half of the images."""

    def __init__(self, p=0.5):
        super().__init__()
        self._p = p

    def hybrid_forward(self, F, x):
        return F.image.random_flip_left_right(x, p=self._p)


class RandomFlipTopBottom(RandomFlipLeftRight):
    """Turns half of the images upside down."""

    def hybrid_forward(self, F, x):
        return F.image.random_flip_top_bottom(x, p=self._p)


class _RandomFactor(HybridBlock):
    """A change by a random factor around 1; whole numbers stay within 0 and 255."""

    def __init__(self, amount):
        super().__init__()
        self._factors = {"min_factor": max(0.0, 1.0 - amount), "max_factor": 1.0 + amount}

    def hybrid_forward(self, F, x):
        return getattr(F.image, self._operator)(x, **self._factors)


class RandomBrightness(_RandomFactor):
    """Lighter or darker."""

    _operator = "random_brightness"

    def __init__(self, brightness):
        super().__init__(brightness)


class RandomContrast(_RandomFactor):
    """More or less contrast."""

    _operator = "random_contrast"

    def __init__(self, contrast):
        super().__init__(contrast)


class RandomSaturation(_RandomFactor):
    """More or less colour."""

    _operator = "random_saturation"

    def __init__(self, saturation):
        super().__init__(saturation)


class RandomHue(_RandomFactor):
    """Other colours."""

    _operator = "random_hue"

    def __init__(self, hue):
        super().__init__(hue)


class RandomLighting(HybridBlock):
    """Another light (Krizhevsky et al., 2012)."""

    def __init__(self, alpha):
        super().__init__()
        self._alpha = alpha

    def hybrid_forward(self, F, x):
        return F.image.random_lighting(x, alpha_std=self._alpha)


class RandomGray(Block):
    """Without colours, with this probability."""

    def __init__(self, p=0.5):
        super().__init__()
        self._change = image.RandomGrayAug(p)

    def forward(self, x):
        return self._change(x.astype("float32"))


class RandomColorJitter(HybridBlock):
    """Brightness, contrast, saturation and hue, in a random order."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        self._amounts = {"brightness": brightness, "contrast": contrast, "saturation": saturation, "hue": hue}

    def hybrid_forward(self, F, x):
        return F.image.random_color_jitter(x, **self._amounts)


class RandomApply(Sequential):
    """Other changes, with a probability."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.add(*(transforms if isinstance(transforms, (list, tuple)) else [transforms]))
        self._p = p

    def forward(self, x, *args):
        return super().forward(x, *args) if _random.random() < self._p else x


class HybridRandomApply(HybridBlock):
    """A hybrid change, with a probability."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms, self._p = transforms, p

    def hybrid_forward(self, F, x):
        return F.where(F.random.uniform(shape=(1,)) < self._p, self.transforms(x), x)


class Rotate(Block):
    """Images (channel, height, width) turned by an angle in degrees."""

    def __init__(self, rotation_degrees, zoom_in=False, zoom_out=False):
        super().__init__()
        self._args = rotation_degrees, zoom_in, zoom_out

    def forward(self, x):
        return image.imrotate(x, *self._args)


class RandomRotation(Block):
    """Images turned by a random angle, with a probability."""

    def __init__(self, angle_limits, zoom_in=False, zoom_out=False, rotate_with_proba=1.0):
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError("Probability of rotating the image should be between 0 and 1")
        self._args, self._p = (angle_limits, zoom_in, zoom_out), rotate_with_proba

    def forward(self, x):
        return image.random_rotate(x, *self._args) if _random.random() < self._p else x
