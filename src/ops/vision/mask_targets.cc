// Targets of a network that draws the masks of objects: the masks of the objects that its regions were matched with, cut out.
#include "ops/numpy/composed.h"

namespace gluino::ops {
namespace {

struct MaskTargetAttrs {
  int64_t num_rois = 0, num_classes = 0, sample_ratio = 2;
  Shape mask_size;
  bool aligned = false;
  static void fields(AttrFields<MaskTargetAttrs>& f) {
    f.required("num_rois", &MaskTargetAttrs::num_rois, "number of regions of an image")
        .required("num_classes", &MaskTargetAttrs::num_classes, "number of classes")
        .required("mask_size", &MaskTargetAttrs::mask_size, "height and width of a target")
        .field("sample_ratio", &MaskTargetAttrs::sample_ratio, "samples per cell and axis; not positive: as many as the cell has pixels")
        .field("aligned", &MaskTargetAttrs::aligned, "shift the regions by half a pixel");
  }
};

Tensors mask_targets(const MaskTargetAttrs& a, std::span<const Tensor> in) {
  const Tensor &rois = in[0], &masks = in[1], &matches = in[2], &classes = in[3];
  if (rois.ndim() != 3 || rois.extent(2) != 4 || masks.ndim() != 4 || matches.ndim() != 2 || classes.ndim() != 2)
    raise<ShapeError>(
        "rois, gt_masks, matches and cls_targets have shapes {}, {}, {}, {}, but (B, N, 4), (B, M, H, W), (B, N), (B, N) are needed",
        rois.shape(), masks.shape(), matches.shape(), classes.shape());
  if (rois.extent(1) != a.num_rois) raise<ShapeError>("there are {} regions of an image, but num_rois is {}", rois.extent(1), a.num_rois);
  if (a.mask_size.size() != 2) raise<AttrError>("mask_size is (height, width), not {}", a.mask_size);
  const int64_t batch = rois.extent(0), regions = a.num_rois, objects = masks.extent(1), height = a.mask_size[0], width = a.mask_size[1];
  // Every mask is an image of one channel; a region's is found at objects * image + match.
  const Tensor first =
      call("_arange", {}, {{"start", 0.0}, {"stop", static_cast<double>(batch)}, {"dtype", rois.dtype()}}) * static_cast<double>(objects);
  const Tensor places = call("broadcast_add", {as_dtype(matches, rois.dtype()), reshaped(first, {batch, 1})});
  const Tensor located = joined({reshaped(places, {batch * regions, 1}), reshaped(rois, {batch * regions, 4})}, 1);
  const Tensor cut =
      call("_contrib_ROIAlign", {reshaped(as_dtype(masks, rois.dtype()), {batch * objects, 1, masks.extent(2), masks.extent(3)}), located},
           {{"pooled_size", a.mask_size}, {"spatial_scale", 1.0}, {"sample_ratio", a.sample_ratio}, {"aligned", a.aligned}});
  const Shape whole{batch, regions, a.num_classes, height, width};
  const Tensor of_class = call("one_hot", {classes}, {{"depth", a.num_classes}, {"dtype", rois.dtype()}});
  return {call("broadcast_to", {reshaped(cut, {batch, regions, 1, height, width})}, {{"shape", whole}}),
          call("broadcast_to", {reshaped(of_class, {batch, regions, a.num_classes, 1, 1})}, {{"shape", whole}})};
}

GLUINO_OP(_contrib_mrcnn_mask_target, MaskTargetAttrs) {
  composed(
      op.doc(
            "The masks of the objects that regions were matched with, cut out and scaled, for every class; and ones for the class of each.")
          .input("rois")
          .input("gt_masks")
          .own_dtype()
          .input("matches")
          .own_dtype()
          .input("cls_targets")
          .own_dtype()
          .outputs({"mask_targets", "mask_cls"})
          .not_differentiable("targets are given, not learnt"),
      mask_targets)
      .sample({uniform_sample({2, 3, 4}, 0, 6), uniform_sample({2, 2, 8, 8}, 0, 1), index_sample({2, 3}, 2), index_sample({2, 3}, 4)},
              {.num_rois = 3, .num_classes = 4, .mask_size = {2, 2}});
}

}  // namespace
}  // namespace gluino::ops
