import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.gluino.DType;
import org.gluino.Gluino;
import org.gluino.GluinoException;
import org.gluino.Model;
import org.gluino.Tensor;

/** The models of make_models.py, in the folder that GLUINO_TEST_MODELS names, give what Python computed. */
public final class ModelsTest {
  private static final Path FOLDER = Path.of(System.getenv("GLUINO_TEST_MODELS"));
  private static int failures = 0;

  private static final class Case {
    final List<Tensor> inputs = new ArrayList<>(), outputs = new ArrayList<>();
  }

  private static List<Case> readCases(String name) throws Exception {
    List<Case> cases = new ArrayList<>();
    Case current = new Case();
    for (String line : Files.readAllLines(FOLDER.resolve(name + ".cases"))) {
      String[] words = line.split(" ");
      if (words[0].equals("run")) {
        cases.add(current);
        current = new Case();
        continue;
      }
      int ndim = Integer.parseInt(words[3]);
      long[] shape = new long[ndim];
      for (int i = 0; i < ndim; ++i) shape[i] = Long.parseLong(words[4 + i]);
      float[] values = new float[words.length - 4 - ndim];
      for (int i = 0; i < values.length; ++i) values[i] = Float.parseFloat(words[4 + ndim + i]);
      int[] whole = new int[values.length];
      for (int i = 0; i < whole.length; ++i) whole[i] = (int) values[i];
      (words[0].equals("input") ? current.inputs : current.outputs)
          .add(words[2].equals("int32") ? Tensor.of(whole, shape) : Tensor.of(values, shape));
    }
    return cases;
  }

  private static boolean runsAsPython(Model net, List<Case> cases) {
    for (Case c : cases) {
      List<Tensor> outputs = net.predict(c.inputs.toArray(new Tensor[0]));
      if (outputs.size() != c.outputs.size()) return false;
      for (int i = 0; i < outputs.size(); ++i) {
        if (!Arrays.equals(outputs.get(i).shape(), c.outputs.get(i).shape())) return false;
        float[] a = outputs.get(i).floats(), b = c.outputs.get(i).floats();
        for (int k = 0; k < b.length; ++k) if (!(Math.abs((double) a[k] - b[k]) <= 1e-6)) return false;
      }
    }
    return true;
  }

  private static void expect(boolean good, String what) {
    System.out.println(what + (good ? "" : ": WRONG"));
    if (!good) ++failures;
  }

  private static void expectError(String code, String text, Runnable call) {
    try {
      call.run();
      expect(false, code);
    } catch (GluinoException e) {
      expect(e.code().equals(code) && (e.getMessage() + e.hint()).contains(text), code + ": " + e.getMessage());
    }
  }

  public static void main(String[] args) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(8);
    for (String name : List.of("mlp", "conv", "loop", "embedding"))
      try (Model net = Model.load(FOLDER.resolve(name + "-symbol.json"))) {
        List<Case> cases = readCases(name);
        Callable<Boolean> task = () -> runsAsPython(net, cases);
        boolean good = true;
        for (Future<Boolean> f : pool.invokeAll(Collections.nCopies(24, task))) good &= f.get();
        expect(good, name + " as Python in eight threads");
      }
    pool.shutdown();
    byte[] graph = Files.readAllBytes(FOLDER.resolve("mlp-symbol.json")), params = Files.readAllBytes(FOLDER.resolve("mlp-0000.params"));
    Model net = Model.fromBytes(graph, params);
    expect(runsAsPython(net, readCases("mlp")), "from memory");
    Model.Value input = net.inputs().get(0);
    expect(input.name.equals("data") && input.dtype == DType.FLOAT32 && Arrays.equals(input.shape, new long[] {-1, 8}), "inputs");
    expect(Arrays.equals(net.outputs().get(0).shape, new long[] {-1, 3}), "outputs");
    Tensor x = Tensor.of(new float[] {1, 2, 3, 4}, 2, 2);
    expect(Arrays.equals(Gluino.invoke("sum", Map.of("axis", "(1,)"), x).get(0).floats(), new float[] {3, 7}), "operators by name");
    expect(Gluino.invoke("split", Map.of("num_outputs", "2"), x).size() == 2, "several outputs");
    expectError("GLUINO_ERROR_SYSTEM", "/nowhere-symbol.json", () -> Model.load(Path.of("/nowhere-symbol.json")));
    expectError("GLUINO_ERROR_ARGUMENT", "did you mean 'broadcast_add'?", () -> Gluino.invoke("broadcast_ad", Map.of(), x, x));
    expectError("GLUINO_ERROR_SHAPE", "", () -> net.predict(x));
    expectError("GLUINO_ERROR_ARGUMENT", "1 are needed: data", net::predict);
    net.close();
    net.close();
    expectError("GLUINO_ERROR_HANDLE", "", () -> net.predict(x));
    Gluino.Statistics before = Gluino.memory();
    for (int i = 0; i < 20; ++i)
      try (Model again = Model.load(FOLDER.resolve("mlp-symbol.json"))) {
        again.predict(Tensor.of(new float[8], 1, 8));
      }
    expect(Gluino.memory().models == before.models && Gluino.memory().arrays == before.arrays, "nothing is left behind");
    System.exit(failures == 0 ? 0 : 1);
  }
}
