"""Random changes that the iterators over files of images make, by MXNet's options."""
import math
import random

import numpy as np

from .. import ndarray as nd

__all__ = ["Affine", "SquareCrop", "OtherHls", "OtherContrast"]


class Affine:
    """Turned, sheared, scaled and stretched around the centre."""

    def __init__(self, max_rotate_angle=0, rotate=-1, max_shear_ratio=0, scales=(1.0, 1.0), ratios=(1.0, 1.0), max_img_size=1e10, min_img_size=0,
                 fill_value=255):
        self.angle, self.fixed_angle, self.shear, self.scales, self.ratios = max_rotate_angle, rotate, max_shear_ratio, scales, ratios
        self.sizes, self.fill_value = (min_img_size, max_img_size), fill_value

    @property
    def does_something(self):
        return self.angle > 0 or self.fixed_angle > 0 or self.shear > 0 or self.scales != (1, 1) or self.ratios != (1, 1) or self.sizes != (0, 1e10)

    def __call__(self, picture):
        height, width = picture.shape[:2]
        shear = random.uniform(-self.shear, self.shear)
        angle = math.radians(self.fixed_angle if self.fixed_angle > 0 else random.randint(-self.angle, self.angle))
        scale, ratio = random.uniform(*self.scales), random.uniform(*self.ratios)
        along = 2 * scale / (1 + ratio)
        across = ratio * along
        cos, sin = math.cos(angle), math.sin(angle)
        turn = np.array([[along * cos - shear * sin * across, along * sin + shear * cos * across], [-sin * across, cos * across]])
        size = [int(max(self.sizes[0], min(self.sizes[1], scale * extent))) for extent in (width, height)]
        shift = (np.array(size) - turn @ [width, height]) / 2  # the centre stays the centre
        matrix = np.column_stack([turn, shift]).ravel().tolist()
        return nd.image.warp_affine(picture, matrix=matrix, height=size[1], width=size[0], fill_value=self.fill_value)


class SquareCrop:
    """A square of a random size, in the middle or anywhere, brought to the size of the result."""

    def __init__(self, least, most, anywhere, size, inter_method):
        self.least, self.most, self.anywhere, self.size, self.inter_method = least, most, anywhere, size, inter_method
        if least > most:
            raise ValueError(f"min_crop_size is {least}, and max_crop_size {most}")

    def __call__(self, picture):
        from .. import image
        height, width = picture.shape[:2]
        if min(height, width) < self.most:
            raise ValueError(f"an image of {height} x {width} is smaller than max_crop_size={self.most}")
        edge = random.randint(self.least, self.most)
        x, y = ((random.randint(0, room) if self.anywhere else room // 2) for room in (width - edge, height - edge))
        return image.fixed_crop(picture, x, y, edge, edge, self.size, self.inter_method)


class OtherHls:
    """Hue, lightness and saturation moved, seldom as far as they may."""

    def __init__(self, random_h=0, random_s=0, random_l=0):
        self.reach = {"hue": random_h, "saturation": random_s, "lightness": random_l}

    def __call__(self, picture):
        def drawn(reach):
            return int((random.random() + 4 * random.random()) / 5 * 2 * reach - reach)
        return nd.image.adjust_hls(picture, **{name: drawn(reach) for name, reach in self.reach.items()})


class OtherContrast:
    """What is normalised already times one random number, plus another one."""

    def __init__(self, contrast=0, illumination=0):
        self.contrast, self.illumination = contrast, illumination

    def __call__(self, picture):
        return picture * (1 + random.uniform(-self.contrast, self.contrast)) + random.uniform(-self.illumination, self.illumination)
