import java.nio.file.Path;
import org.gluino.Model;
import org.gluino.Tensor;

/** Microseconds of one call, the best of many rounds: Bench net-symbol.json */
public final class Bench {
  public static void main(String[] args) {
    try (Model net = Model.load(Path.of(args[0]))) {
      Tensor x = Tensor.of(new float[512], 1, 512);
      double best = Double.MAX_VALUE;
      for (int round = 0; round < 30; ++round) {
        long start = System.nanoTime();
        for (int i = 0; i < 2000; ++i) net.predict(x);
        best = Math.min(best, (System.nanoTime() - start) / 1e3 / 2000);
      }
      System.out.printf("{\"Java\": %.3f}%n", best);
    }
  }
}
