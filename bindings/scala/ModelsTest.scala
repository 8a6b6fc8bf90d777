import java.nio.file.{Files, Paths}

import org.gluino.{GluinoException, Tensor}
import org.gluino.scala.{Model, Operators}
import org.gluino.scala.Operators._
import scala.collection.JavaConverters._
import scala.concurrent.{Await, Future}
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.Duration

/** The models of make_models.py, in the folder that GLUINO_TEST_MODELS names, give what Python computed. */
object ModelsTest {
  final case class Case(inputs: Seq[Tensor], outputs: Seq[Tensor])

  private val folder = sys.env("GLUINO_TEST_MODELS")

  private def readCases(name: String): Seq[Case] = {
    def tensor(words: Seq[String]): Tensor = {
      val (shape, values) = words.drop(4).splitAt(words(3).toInt)
      if (words(2) == "int32") Tensor.of(values.map(_.toInt).toArray, shape.map(_.toLong): _*)
      else Tensor.of(values.map(_.toFloat).toArray, shape.map(_.toLong): _*)
    }
    val lines = Files.readAllLines(Paths.get(folder, name + ".cases")).asScala.map(_.split(' ').toSeq)
    lines.foldLeft((Seq.empty[Case], Case(Nil, Nil))) { case ((done, current), words) =>
      words.head match {
        case "run" => (done :+ current, Case(Nil, Nil))
        case "input" => (done, current.copy(inputs = current.inputs :+ tensor(words)))
        case _ => (done, current.copy(outputs = current.outputs :+ tensor(words)))
      }
    }._1
  }

  private def isAsPython(got: Seq[Tensor], want: Seq[Tensor]): Boolean =
    got.size == want.size && got.zip(want).forall { case (a, b) =>
      a.shape.toSeq == b.shape.toSeq && a.floats.zip(b.floats).forall { case (x, y) => math.abs(x.toDouble - y) <= 1e-6 }
    }

  def main(arguments: Array[String]): Unit = {
    for (name <- Seq("mlp", "conv", "loop", "embedding")) Model.using(s"$folder/$name-symbol.json") { net =>
      val cases = readCases(name)
      val calls = Future.sequence(Seq.fill(8)(cases).flatten.map(c => net.predictAsync(c.inputs: _*).map(isAsPython(_, c.outputs))))
      assert(cases.nonEmpty && Await.result(calls, Duration.Inf).forall(identity), name)
      println(s"$name as Python, many at a time")
    }
    val net = Model.load(s"$folder/mlp-symbol.json")
    assert(net.inputs.head.shape == Some(Seq(None, Some(8L))), net.inputs)
    val x = Tensor.of(Array(1f, 2f, 3f, 4f), 2, 2)
    assert((x * x + x - x / x).floats.toSeq == Seq(1f, 5f, 11f, 19f))
    assert(Operators.invoke("sum", x)("axis" -> Seq(1)).head.floats.toSeq == Seq(3f, 7f))
    val failure = scala.util.Try(Operators.invoke("broadcast_ad", x, x)()).failed.get.asInstanceOf[GluinoException]
    assert(failure.hint == "did you mean 'broadcast_add'?", failure.hint)
    assert(scala.util.Try(net(x)).failed.get.asInstanceOf[GluinoException].code == "GLUINO_ERROR_SHAPE")
    net.close()
    assert(scala.util.Try(net(x)).failed.get.asInstanceOf[GluinoException].code == "GLUINO_ERROR_HANDLE")
    println("shapes, arithmetic, errors")
    sys.exit(0)
  }
}
