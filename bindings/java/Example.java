import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.gluino.Gluino;
import org.gluino.Model;
import org.gluino.Tensor;

/** Runs an exported network in parallel on the same weights: Example net-symbol.json */
public final class Example {
  public static void main(String[] args) {
    try (Model net = Model.load(Path.of(args[0]))) {
      long[] shape = net.inputs().get(0).shape;
      int count = 1;
      for (int i = 0; i < shape.length; ++i) count *= shape[i] = shape[i] < 0 ? 2 : shape[i]; // free extents: two
      float[] x = new float[count];
      List<Tensor> results = IntStream.range(0, 8).parallel().mapToObj(i -> net.predict(Tensor.of(x, shape)).get(0)).toList();
      System.out.println(results.get(0) + ", most likely " + Gluino.invoke("argmax", Map.of("axis", "1"), results.get(0)).get(0).floats()[0]);
    }
  }
}
