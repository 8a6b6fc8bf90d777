package org.gluino.scala

import java.nio.file.{Path, Paths}

import org.gluino.{Gluino => JavaGluino, Model => JavaModel, Tensor}
import scala.collection.JavaConverters._
import scala.concurrent.{ExecutionContext, Future, blocking}

/** What is known of an input or output: a free extent is None, and so is what is not known before the call. */
final case class Value(name: String, dtype: Option[org.gluino.DType], shape: Option[Seq[Option[Long]]])

/** A loaded network; any number of threads may call it at once, on the same weights. */
final class Model private (model: JavaModel) extends AutoCloseable {
  def inputs: Seq[Value] = model.inputs.asScala.map(Model.value)
  def outputs: Seq[Value] = model.outputs.asScala.map(Model.value)

  /** Runs the network and gives its first output. */
  def apply(inputs: Tensor*): Tensor = predict(inputs: _*).head
  def predict(inputs: Tensor*): Seq[Tensor] = model.predict(inputs: _*).asScala
  def predictAsync(inputs: Tensor*)(implicit context: ExecutionContext): Future[Seq[Tensor]] = Future(blocking(predict(inputs: _*)))

  override def close(): Unit = model.close()
}

object Model {
  def load(path: String): Model = new Model(JavaModel.load(Paths.get(path)))
  def load(path: Path, params: Path): Model = new Model(JavaModel.load(path, params))
  def fromBytes(graph: Array[Byte], params: Array[Byte]): Model = new Model(JavaModel.fromBytes(graph, params))

  /** Loads, hands over, and closes whatever happens. */
  def using[A](path: String)(use: Model => A): A = {
    val model = load(path)
    try use(model)
    finally model.close()
  }

  private def value(v: JavaModel.Value): Value =
    Value(v.name, Option(v.dtype), Option(v.shape).map(_.toSeq.map(extent => if (extent < 0) None else Some(extent))))
}

object Operators {
  /** Any operator by its name in MXNet: invoke("sum", x)("axis" -> Seq(0, 1)). */
  def invoke(name: String, inputs: Tensor*)(attributes: (String, Any)*): Seq[Tensor] =
    JavaGluino.invoke(name, attributes.map { case (key, value) => key -> text(value) }.toMap.asJava, inputs: _*).asScala

  private def text(value: Any): String = value match {
    case list: Seq[_] => list.mkString("(", ", ", if (list.size == 1) ",)" else ")")
    case true => "True"
    case false => "False"
    case None => "None"
    case other => other.toString
  }

  /** a + b, a - b, a * b, a / b, broadcast as NumPy does. */
  implicit final class Arithmetic(private val a: Tensor) extends AnyVal {
    def +(b: Tensor): Tensor = invoke("broadcast_add", a, b)().head
    def -(b: Tensor): Tensor = invoke("broadcast_sub", a, b)().head
    def *(b: Tensor): Tensor = invoke("broadcast_mul", a, b)().head
    def /(b: Tensor): Tensor = invoke("broadcast_div", a, b)().head
  }
}
